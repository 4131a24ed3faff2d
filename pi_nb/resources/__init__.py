"""What shapes a run besides the conversation: for now the default system prompt.

Skills, templates and trust come with the workbench.
"""
