"""What rule authors use: a file to start from, tests inside rule files, and the tables those tests run on."""
