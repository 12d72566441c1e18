"""Pages that hold everything they show: their shell, their colours, and what keeps them closed."""
