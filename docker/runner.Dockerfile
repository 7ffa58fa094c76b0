# The image of notebooks and jobs. A job runs in the image of its notebook, so that it finds the same packages.
# Build it from the root of the repository, after `make dist`, on your image with JupyterLab:
#   docker build -f docker/runner.Dockerfile --build-arg BASE=<your image> -t <registry>/jupyter-gq/runner:<version> .
ARG BASE=quay.io/jupyter/scipy-notebook:python-3.12
# hadolint ignore=DL3006
FROM ${BASE}
COPY dist/*.whl /tmp/wheels/
# Installed packages keep their versions: a conflict fails the build.
RUN pip list --format freeze > /tmp/there.txt && \
    wheel="$(ls /tmp/wheels/jupyter_gq-*.whl)" && \
    pip install --no-cache-dir --constraint /tmp/there.txt "${wheel}[checkpoints,lab]" && \
    python -c "import jupyter_gq.runner, jupyter_gq.lab" && \
    rm /tmp/there.txt
