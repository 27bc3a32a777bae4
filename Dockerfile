# Two images: `daemon`, and `spark` with Java and PySpark beside it. See docker-compose.yml.

FROM python:3.12-slim-bookworm AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY muster muster
COPY coordinator coordinator
COPY protocol protocol
COPY storage storage
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.12-slim-bookworm AS base
COPY constraints.txt /dist/constraints.txt
COPY --from=wheel /dist /dist
RUN pip install --no-cache-dir --constraint /dist/constraints.txt /dist/muster-*.whl \
    && useradd --system --uid 9092 --create-home muster \
    && install --directory --owner muster /var/lib/muster

FROM base AS spark
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir --constraint /dist/constraints.txt "$(ls /dist/muster-*.whl)[spark]" \
    && install --directory --owner muster /tables /home/muster/work
USER muster
WORKDIR /home/muster
# The jars of Spark's Kafka source come into the image: a container starts without a network.
RUN python -m muster.spark.jars
VOLUME /tables

FROM base AS daemon
USER muster
WORKDIR /var/lib/muster
VOLUME /var/lib/muster
EXPOSE 9092 9640 19092
STOPSIGNAL SIGTERM
ENTRYPOINT ["muster", "serve"]
CMD ["--log-dirs", "/var/lib/muster"]
