"""What a session looks like to somebody who is not in the notebook, or not in Python.

`export` makes one page of a session that needs nothing else: no network, no key, and no
JavaScript to be read. Views decide nothing: they show what the folders above them know.

    export (the page) -> tree_list, transcript, facts -> page.css, page.js beside them
"""
