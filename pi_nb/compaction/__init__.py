"""When, where and how to forget. `branch` is one branch with its weights, `cut` where it may
be cut, `prepare` what a cut means, `plan` what would be done within a `budget`, and why;
`branches` what of a left branch is summarised, `transcript` how messages are read aloud to a
summariser. Nothing here asks a model.
"""
