"""The world as the agent sees it: files and commands, every answer a `Result`.

`types` is the contract, `local` this machine, `memory` a world without one. `capture` keeps
the end of a command's output and `spill` the whole; `ignore` knows what a search passes over.
No method raises.
"""
