"""``python -m numbatok``: the command line where the ``numbatok`` script is not on the path.

Invariant: the same program as the script, under the same name.

    $ echo hello | python -m numbatok count -
           2       6 -
"""

from numbatok.cli import main

if __name__ == "__main__":
    main(prog_name="numbatok")
