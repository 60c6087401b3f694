"""Label tables and class lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdata_cli.errors import UsageError
from fastdata_cli.formats.raw import FORMAT as RAW
from fastdata_cli.formats.tree.classes import load_classes
from fastdata_cli.key_table import KeyTable
from fastdata_cli.sample import Payload
from fastdata_cli.storage.labels import LabelTable, load_labels
from fastdata_cli.testing import pixel_samples, write_dataset
from fastdata_cli.testing.synthetic import CLASS_NAMES

FILES = KeyTable.from_keys(["a.jpg", "b.jpg", "c.jpg"])


def table(tmp_path: Path, content: str | bytes) -> LabelTable:
    path = tmp_path / "labels"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_labels(path)


@pytest.mark.parametrize(
    "content",
    [
        "key,label\na.jpg,dog\nb.jpg,cat\n",
        "label,width,filename\ndog,3,a.jpg\ncat,4,b.jpg\n",
        "Image,Class\r\na.jpg,dog\r\nb.jpg,cat\r\n",
        "a.jpg,dog\n\nb.jpg,cat",
        "path\tlabel\na.jpg\tdog\nb.jpg\tcat\n",
        'file,class\n"./a.jpg","dog"\n"b.jpg"," cat "\n',
        "\ufefffile,species\na.jpg,dog\nb.jpg,cat\n",
        "photo,label\na.jpg,dog\nb.jpg,cat\n",
        "id,path,label\n1,a.jpg,dog\n2,b.jpg,cat\n",
        '{"key": "a.jpg", "label": "dog"}\n\n{"label": "cat", "path": "b.jpg", "x": 1}\n',
        "a.jpg,dog\na.jpg,dog\nb.jpg,cat\n",
    ],
)
def test_ways_to_write_a_table(tmp_path: Path, content: str) -> None:
    found = table(tmp_path, content).apply(FILES)
    assert found.class_names == ("cat", "dog")
    assert found.labels.tolist() == [1, 0, -1]
    assert found.notes == {"image-without-label": 1}


@pytest.mark.parametrize(
    "content",
    [
        "a.jpg,7\nb.jpg,0\nc.jpg,\n",
        "a.jpg,007\nb.jpg,0\nc.jpg,-1\n",
        '{"key":"a.jpg","label":7}\n{"key":"b.jpg","label":0}\n{"key":"c.jpg","label":null}\n',
    ],
)
def test_whole_numbers_are_labels(tmp_path: Path, content: str) -> None:
    found = table(tmp_path, content).apply(FILES)
    assert found.labels.tolist() == [7, 0, -1]
    assert found.class_names == ()
    assert found.notes == {"empty-label": 1}  # a row that says so: nobody forgot the image


@pytest.mark.parametrize(
    "content",
    [
        "a.jpg,0\nb.jpg,1\nc.jpg,-2\n",
        '{"key":"a.jpg","label":0}\n{"key":"b.jpg","label":-1}\n{"key":"x","label":-2}\n',
    ],
)
def test_numbers_below_no_label_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match=r"labels, line 3: -2 is no label"):
        table(tmp_path, content).apply(FILES)
    for large in (1 << 63, 10**30):
        with pytest.raises(UsageError, match=rf"labels, line 2: {large} is too large"):
            table(tmp_path, f"a.jpg,{large - 1 if large == 1 << 63 else 5}\nb.jpg,{large}\n").apply(
                FILES
            )
    named = table(tmp_path, "a.jpg,-2\nb.jpg,x\n")  # one of them is a name: so are all
    assert named.apply(FILES).class_names == ("-2", "x")


def test_given_classes_number_the_names(tmp_path: Path) -> None:
    names = table(tmp_path, "a.jpg,dog\nb.jpg,cat\n")
    assert names.apply(FILES, ("dog", "emu", "cat")).labels.tolist() == [0, 2, -1]
    with pytest.raises(UsageError, match="'cat' is not among"):
        names.apply(FILES, ("dog",))
    # Names that look like numbers are names wherever the given classes have them all.
    numbers = table(tmp_path, "a.jpg,10\nb.jpg,1\n")
    assert numbers.apply(FILES, ("1", "10", "2")).labels.tolist() == [1, 0, -1]
    assert numbers.apply(FILES, tuple("abcdefghijk")).labels.tolist() == [10, 1, -1]
    with pytest.raises(UsageError, match="label 10 is beyond the 3 classes"):
        numbers.apply(FILES, ("a", "b", "c"))


def test_paths_in_either_form(tmp_path: Path) -> None:
    files = KeyTable.from_keys(["new\nline.jpg", "100%41.jpg", "not-\udcff.jpg", "ä.jpg"])
    as_text = "new%0Aline.jpg,1\n100%2541.jpg,2\nnot-%FF.jpg,3\nä.jpg,4\n"
    assert table(tmp_path, as_text).apply(files).labels.tolist() == [1, 2, 3, 4]
    raw = b'"new\nline.jpg",1\n100%41.jpg,2\nnot-\xff.jpg,3\n\xc3\xa4.jpg,4\n'
    assert table(tmp_path, raw).apply(files).labels.tolist() == [1, 2, 3, 4]


def test_rows_without_image_are_counted(tmp_path: Path) -> None:
    found = table(tmp_path, "a.jpg,x\nz%0A.jpg,x\ny.jpg,x\nc.jpg,x\nb.jpg,x\n").apply(FILES)
    assert found.notes == {"label-without-image": 2}


def test_a_table_of_another_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none of its 2 paths") as caught:
        table(tmp_path, "set/a.jpg,1\nset/b.jpg,2\n").apply(FILES)
    assert "set/a.jpg" in caught.value.hint
    assert "a.jpg" in caught.value.hint
    assert len(table(tmp_path, "x.jpg,1\n").apply(KeyTable.from_keys([])).labels) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path,label\na.jpg,1\nb.jpg\n", "line 3: 1 of the columns"),
        ("a,b,c\n1,2,3\n", "line 1: no columns"),
        ("a.jpg\n", "line 1: no columns"),
        ("a.jpg,1\nb.jpg,2\na.jpg,3\n", "line 3: the path of line 1 again"),
        ('a.jpg,"1\n', "line 1"),
        ('{"key": "a.jpg", "label": 1}\n{"key": "b.jpg"', "line 2: not JSON"),
        ('{"key": "a.jpg", "label": 1}\n[]\n', "line 2: not a JSON object"),
        ('{"label": 1}\n', "line 1: no path"),
        ('{"key": "a.jpg", "label": 1.5}\n', "line 1: the label is neither"),
        ('{"key": "a.jpg", "label": true}\n', "line 1: the label is neither"),
        ('{"key": "\\ud800.jpg", "label": 1}\n', "line 1: the path holds half"),
        ("", "there are no labels"),
        ("path,label\n", "there are no labels"),
    ],
)
def test_malformed_tables_name_the_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        table(tmp_path, content)
    assert str(tmp_path / "labels") in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for load in (load_labels, load_classes):
        with pytest.raises(UsageError, match=r"gone.*No such file"):
            load(tmp_path / "gone")
    with pytest.raises(UsageError, match="Is a directory"):
        load_labels(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["cat\ndog\nÄ\n", "cat\r\n\r\ndog\r\nÄ", '["cat", "dog", "Ä"]\n', "\ufeffcat\ndog\nÄ"],
)
def test_class_lists(tmp_path: Path, content: str) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(content.encode())
    assert load_classes(path) == ("cat", "dog", "Ä")


def test_classes_of_a_dataset_and_of_a_folder(tmp_path: Path) -> None:
    made = write_dataset(RAW, tmp_path / "set.raw", pixel_samples(3), Payload.PIXELS)
    assert load_classes(made) == CLASS_NAMES
    for name in ("b", "a"):
        (tmp_path / "folders" / name).mkdir(parents=True)
    assert load_classes(tmp_path / "folders") == ("a", "b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cat\ndog\ncat\n", "names the class 'cat' twice"),
        ("\n", "no class names"),
        ("[1, 2]", "texts only"),
        ('["cat"', "not a JSON list"),
    ],
)
def test_malformed_class_lists(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "classes.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        load_classes(path)
