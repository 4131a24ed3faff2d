"""The world as the agent sees it: files and commands, every answer a `Result`.

`types` is the contract, `local` this machine, `capture` keeps a bounded tail of output.
No method raises for what the world refuses.
"""
