"""From a run's rules to its diagnosis: `diagnosing` lists the passes, every other module is one of them."""
