"""`metacog exam`: models, agents and strategies answer labelled tasks, and the suite learns how good each is."""
