# The studio as a container, for a machine with a GPU or without one and for a Hugging Face Space.
#   docker build -t zonos2-studio .
#   docker run --rm -p 7860:7860 [--gpus all] [-e STUDIO_MODEL=Zyphra/ZONOS2] zonos2-studio
FROM python:3.11-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 studio \
    && install -d -o studio -g studio /home/studio/app /home/studio/.cache
USER studio
WORKDIR /home/studio/app

ENV HOME=/home/studio \
    XDG_CACHE_HOME=/home/studio/.cache \
    HF_HOME=/home/studio/.cache/huggingface \
    HF_HUB_DISABLE_TELEMETRY=1 \
    GRADIO_ANALYTICS_ENABLED=False \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    STUDIO_HOST=0.0.0.0 \
    STUDIO_PORT=7860

# The packages come first: a change of the source leaves this layer as it is.
COPY --chown=studio Makefile requirements.txt requirements-nodeps.txt constraints.txt ./
RUN make install

COPY --chown=studio LICENSE NOTICE app.py ./
COPY --chown=studio assets ./assets
COPY --chown=studio engine ./engine
# Numbers and dates of nine languages are then read by grammars from the first request on.
RUN .venv/bin/python -m engine.text.grammars
COPY --chown=studio studio ./studio

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD [".venv/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:7860/health', timeout=4)"]

# The interpreter itself is process 1, so a stop signal reaches it and running requests are drained.
CMD [".venv/bin/python", "app.py"]
