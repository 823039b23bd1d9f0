# docker build -t cultivar . && docker run --rm -v "$PWD:/work" --security-opt seccomp=unconfined cultivar run quickstart
# Runs and exports are written to /work/runs. The security option permits the sandbox of kernels (bubblewrap creates user
# namespaces). Without it kernels run with weaker isolation, which `cultivar doctor` reports.
FROM debian:bookworm-slim AS build
COPY . /cultivar
RUN /cultivar/cultivar package

FROM debian:bookworm-slim
COPY --from=build /cultivar/build/release/cultivar_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/cultivar_*.deb ca-certificates \
    && rm -rf /tmp/cultivar_*.deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["cultivar"]
CMD ["--help"]
