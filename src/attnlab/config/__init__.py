"""Every knob of a run, by name: loaded, checked and completed before any work begins."""
