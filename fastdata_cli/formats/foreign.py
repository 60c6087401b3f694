"""The names that others give to what stands beside their images."""

LABEL_NAMES = ("labels", "label", "targets", "target", "classes", "class", "class_ids", "y")
KEY_NAMES = ("keys", "key", "names", "name", "filenames", "filename", "paths", "path", "ids", "id")
CLASSES_ATTRIBUTES = ("class_names", "classes", "class_labels", "categories")
