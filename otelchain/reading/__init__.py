"""Ask what was collected, of the file or the running collector; the command and Python share it."""
