"""The pages, a file each: `routes` gives what is asked of it."""
