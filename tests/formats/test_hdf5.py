"""The HDF5 format."""

from fastdata_cli.formats.hdf5 import FORMAT
from fastdata_cli.formats.hdf5_filters import Hdf5WriteOptions
from fastdata_cli.testing import FormatConformance


class TestPlain(FormatConformance):
    format = FORMAT


class TestCompressedChunks(FormatConformance):
    format = FORMAT
    write_options = Hdf5WriteOptions(chunk=8, codec="zstd", shuffle="bit", level=1)
    part_samples = 8


class TestGzip(FormatConformance):
    format = FORMAT
    write_options = Hdf5WriteOptions(chunk=3, codec="gzip", shuffle="byte")
