"""Kills everything at random while jobs are submitted, and checks that nothing was lost.

It lies with the tests because it starts the service from outside, as they do, and is no part of
what is shipped. `./dev chaos` runs it.
"""
