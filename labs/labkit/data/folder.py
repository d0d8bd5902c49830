"""Images laid out as ImageNet's: one folder per class. Pillow reads each when it is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labkit.errors import LabError, NotHere


class ImageFolder:
    """Images in folders named by class, read one by one: len(images), images.load(i), images.batch(…)."""

    def __init__(self, folder: Path, classes: list[str], files: list[tuple[Path, int]]):
        self.folder = folder
        self.classes = classes
        self.paths = [path for path, _ in files]
        self.labels = np.array([label for _, label in files], np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, index: int, pixels: int = 224) -> np.ndarray:
        """One image, float32 (3, pixels, pixels) in [0, 1]: shorter side to 8/7 of `pixels`, centre crop."""
        from PIL import Image, UnidentifiedImageError

        path = self.paths[index]
        try:
            with Image.open(path) as image:
                image = image.convert("RGB")
        except (UnidentifiedImageError, OSError, SyntaxError) as error:
            raise LabError(
                f"{path} cannot be read as an image ({error}): copy it again or remove it."
            ) from None
        scale = pixels * 8 / 7 / min(image.size)
        width, height = (max(pixels, round(side * scale)) for side in image.size)
        left = (width - pixels) // 2
        top = (height - pixels) // 2
        image = image.resize((width, height)).crop((left, top, left + pixels, top + pixels))
        return np.asarray(image, np.float32).transpose(2, 0, 1) / np.float32(255)

    def batch(self, indices, pixels: int = 224) -> tuple[np.ndarray, np.ndarray]:
        """The images (n, 3, pixels, pixels) and labels (n,) of these indices."""
        images = np.stack([self.load(int(index), pixels) for index in indices])
        return images, self.labels[np.asarray(indices)]


def image_folder(folder: str | Path) -> ImageFolder:
    """Images laid out as ImageNet's: folder/CLASS/IMAGE.jpg. Each file is read when it is asked for.

    Give the folder of one split (…/train or …/val). Classes are numbered in alphabetical order.
    """
    try:
        import PIL  # noqa: F401 - asked for now, so that the sentence comes before the training starts
    except ImportError:
        raise NotHere(
            "Reading image files needs Pillow, which is not installed here: pip install pillow."
        ) from None
    folder = Path(folder)
    layout = (
        "expected one sub-folder per class with its .jpg, .jpeg or .png files in it (folder/CLASS/IMAGE.jpg)"
    )
    if not folder.is_dir():
        raise NotHere(f"There is no folder {folder}; {layout}.")
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    files = []
    for label, name in enumerate(classes):
        for path in sorted((folder / name).iterdir()):
            if path.suffix.lower() in (".jpg", ".jpeg", ".png"):
                files.append((path, label))
    if not files:
        raise NotHere(f"No images in {folder}: {layout}.")
    return ImageFolder(folder, classes, files)
