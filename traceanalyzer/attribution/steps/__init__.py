"""The steps of a trace, and the window of it that is analysed.

`steps` reads marked steps, `recurring_launches` finds recurring work where no step is marked, `windows` chooses the
analysis window.
"""
