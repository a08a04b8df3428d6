"""The rules of a run: loaded from folders (`loading`), checked against metrics and tables (`binding`), with
parameters overridden by the project and the command line (`settings_in_force`).
"""
