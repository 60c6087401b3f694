"""bench: how fast a dataset arrives in training batches, where the time goes, what to change.

A new workload needs, in this order, those of these that it does not share with another one:

    order    of plain reads or loaders: a word in ``loading.orders.SAMPLERS``; done
    case     what is timed: a ``timing.measure.Case`` (as in ``reads.ReadCase``), by ``case_name``
    phase    what measures all datasets' cases against each other: a method of ``run._Run``, called
             by ``bench``; time of its own is a share in ``budget.SHARES``
    row      what was found: a frozen class in ``report``, a field of ``BenchReport``, its name in
             ``recorder._SECTIONS`` (the record) and ``compare.measurements`` (``--compare``)
    table    a maker in ``cli.bench_sections.sections``: terminal, Markdown and page have it then;
             for CSV a loop in ``cli.bench_export._csv_rows``; fields in docs/bench-json.md
    verdict  only if it says what limits: ``verdicts.observe``, and a rule in ``timing.symptoms``
"""
