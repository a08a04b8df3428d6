"""From what nsys wrote to columns: the tables of each schema version, where they are and how they are read."""
