# One image for every role: the command says which (see docker-compose.yml).
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS build
WORKDIR /app
ENV PYTHONDONTWRITEBYTECODE=1
COPY requirements-uv.txt requirements.txt ./
RUN python -m venv /opt/tools \
    && /opt/tools/bin/pip install --no-cache-dir --require-hashes -r requirements-uv.txt \
    && python -m venv --without-pip /opt/venv \
    && /opt/tools/bin/uv pip install --no-cache --python /opt/venv/bin/python \
        --compile-bytecode --require-hashes -r requirements.txt
COPY dpmcmc dpmcmc
COPY app app
COPY worker worker
COPY migrations migrations
COPY alembic.ini ./
# Byte code and kernels name their sources' times, which a layer may round: whole seconds survive it.
RUN find dpmcmc app worker migrations -exec touch -d 2026-01-01T00:00:00Z {} + \
    && /opt/venv/bin/python -m compileall -q dpmcmc app worker migrations \
    && NUMBA_CACHE_DIR=/app/kernels PYTHONPATH=/app /opt/venv/bin/python -m worker.warmup

FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin dpmcmc \
    && install -d -o dpmcmc -g dpmcmc -m 0700 /data
WORKDIR /app
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/app \
    NUMBA_CACHE_DIR=/tmp/numba \
    DPMCMC_KERNELS_DIR=/app/kernels \
    DPMCMC_DATA_DIR=/data \
    DPMCMC_LIVENESS_FILE=/tmp/liveness
USER 10001
VOLUME /data
EXPOSE 8000
# An API answers on its port; a worker and a recovery process, which answer on none, touch their file.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-m", "app.health", "http://127.0.0.1:8000/readyz?workers=false"]
ENTRYPOINT ["python", "-m"]
CMD ["app.serve", "--host", "0.0.0.0", "--port", "8000"]
