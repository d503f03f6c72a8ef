"""The demo: the main use, end to end, on real parts: a cycle of two services in which money must never get lost.

Start at `story`; `accounts` and `clearing` are the services, as any user would write them.
"""
