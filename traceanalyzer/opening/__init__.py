"""What opening a run does, in this order: `finding` names its files, `ingesting` has what is new read, `contents` puts
what the store then holds in order and writes its catalogue, and `deriving` has it attributed, by `attributing`.

Reading one file and attributing one trace are tasks: threads of this process run them, or an executor that is given,
such as `cluster`'s. `planning` says what there is to do, and how many requests of an object store that takes, and
does a share of it, for jobs without a scheduler. `kept_diagnosis` is the last answer about a run that did not change
since.
"""
