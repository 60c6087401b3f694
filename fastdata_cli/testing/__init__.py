"""For authors of formats: the conformance suite that every format passes, and synthetic samples.

Needs pytest. In a plug-in's tests::

    from fastdata_cli.testing import FormatConformance

    class TestMyFormat(FormatConformance):
        format = my_package.FORMAT

A format that is only read has ``ReaderConformance``, whose fixtures give a reader and its samples.
"""

from fastdata_cli.testing.conformance import FormatConformance
from fastdata_cli.testing.reader_conformance import ReaderConformance
from fastdata_cli.testing.synthetic import encoded_samples, pixel_samples, write_dataset

__all__ = [
    "FormatConformance",
    "ReaderConformance",
    "encoded_samples",
    "pixel_samples",
    "write_dataset",
]
