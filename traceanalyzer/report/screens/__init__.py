"""The screens of the commands other than `diagnose`, one module each."""
