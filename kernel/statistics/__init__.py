"""Statistics that services, console and evaluations share; pure: chance is passed in.

A *confidence* is a belief that an answer is right [0..1]. A *score* says how right it was [0..1]; where only right or
wrong makes sense, it was right from 0.5 on.
"""
