# The Hub of Zero to JupyterHub with the spawner of jupyter-gq. VERSION is the version of your chart jupyterhub.
# Build it from the root of the repository, after `make dist`:
#   docker build -f docker/hub.Dockerfile --build-arg VERSION=<version> -t <registry>/jupyter-gq-hub:<version> .
ARG VERSION
FROM quay.io/jupyterhub/k8s-hub:${VERSION}
USER 0
COPY dist/*.whl /tmp/wheels/
# Installed packages, above all the Hub, keep their versions: a conflict fails the build.
RUN pip list --format freeze > /tmp/there.txt && \
    wheel="$(ls /tmp/wheels/jupyter_gq-*.whl)" && \
    pip install --no-cache-dir --constraint /tmp/there.txt "${wheel}[hub]" && \
    rm -r /tmp/there.txt /tmp/wheels
USER 1000:1000
