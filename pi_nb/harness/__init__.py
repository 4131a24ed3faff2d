"""The harness: the loop with a memory. It writes a session, keeps phases, and is told what to do.

`hooks` may change what happens, `events` is what is told, `queues` hold what waits for a
turn, `approval` asks before a tool changes something, `harness` is the class that holds it.
"""
