"""These statistics serve the services, the console and the evaluations; they are pure, and chance is passed in.

A *confidence* is a belief that an answer is right [0..1]. A *score* states how right it was [0..1]; where only right or
wrong makes sense, it was right from 0.5 on.
"""
