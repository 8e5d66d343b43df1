"""Measure what the patch models' pictures are compared with: the classifier's features of held-out pictures.

    python -m training.features

Writes benchmarks/features.safetensors, and how far real pictures lie from their mean and covariance by chance alone.
"""

import torch
from safetensors.torch import save_file

from benchmarks._image_quality import FEATURES, Reference, features, frechet
from engines.models.bundled.image import FOLDER
from engines.models.checkpoint_files import sha256
from training.image_tokenizer import as_images
from training.scenes_data import TEST, build

COUNT = 4_000
FLOORS = (32, 128, 512)
REPEATS = 8


def main() -> None:
    """Measure and write."""
    images = as_images(torch.from_numpy(build(COUNT, TEST, 0)[0])).cpu()
    all_features = torch.cat([features(chunk) for chunk in images.split(250)])
    about = Reference(all_features.mean(0), all_features.T.cov())
    order = torch.Generator().manual_seed(0)
    floors = {
        str(count): sum(
            frechet(all_features[torch.randperm(COUNT, generator=order)[:count]], about) for _ in range(REPEATS)
        )
        / REPEATS
        for count in FLOORS
    }
    tensors = {"mean": about.mean.float(), "covariance": about.covariance.float().contiguous()}
    written = {f"floor_{count}": f"{floor:.4f}" for count, floor in floors.items()}
    classifier = sha256(FOLDER / "image-classifier.safetensors")
    save_file(tensors, FEATURES, {"classifier": classifier, "pictures": str(COUNT), **written})
    print(written)


if __name__ == "__main__":
    main()
