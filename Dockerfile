# One image for the API and the workers. The first stage makes wheels, the dashboard among them; the second runs.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY engine engine
COPY service service
COPY workers workers
COPY web web
RUN pip wheel --no-cache-dir --wheel-dir /wheels '.[service,corpus,cc]'

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'gradmill[service,corpus,cc]' \
 && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin gradmill \
 && install -d -o gradmill -g gradmill -m 0700 /data /cache
ENV GRADMILL_DATA_DIR=/data GRADMILL_CACHE=/cache/kernels HOME=/cache PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["gradmill", "serve"]
