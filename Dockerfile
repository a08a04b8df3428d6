# The command alone: docker build -t traceanalyzer . && docker run --rm -v "$PWD:/data" traceanalyzer diagnose /data/run42
FROM python:3.11-slim AS build
WORKDIR /source
# A C compiler makes the native reader.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY traceanalyzer traceanalyzer
COPY rules rules
COPY docs/traceanalyzer.1 docs/traceanalyzer.1
RUN python -m venv /opt/traceanalyzer && /opt/traceanalyzer/bin/pip install --no-cache-dir '.[stats]'

FROM python:3.11-slim
COPY --from=build /opt/traceanalyzer /opt/traceanalyzer
# The run is mounted by someone: no rights of root over it.
RUN useradd --create-home user
USER user
WORKDIR /data
ENTRYPOINT ["/opt/traceanalyzer/bin/traceanalyzer"]
CMD ["--help"]
