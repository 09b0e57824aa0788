# lgx on a CPU, without root:
#   docker build --build-arg PIP_OPTIONS=OPTIONS --build-arg EXTRAS=nlp,export --tag lgx .
#   docker run --rm --shm-size 8g --user "$(id -u):$(id -g)" --env HOME=/tmp --volume "$PWD:/work" lgx doctor
# OPTIONS are options of pip, for example those with which PyTorch's install page installs its CPU wheels. Without them torch comes with
# its CUDA libraries.
# EXTRAS names groups of optional packages in pyproject.toml; without it none is installed.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir build==1.6.1 && python -m build --wheel --outdir /dist

FROM python:3.13-slim
ARG PIP_OPTIONS=""
ARG EXTRAS=""
ENV PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /dist /tmp/dist
RUN pip install --no-cache-dir $PIP_OPTIONS --constraint /tmp/constraints.txt \
    "$(ls /tmp/dist/*.whl)${EXTRAS:+[$EXTRAS]}" \
    && useradd --create-home --uid 1000 lgx
USER 1000
WORKDIR /work
ENTRYPOINT ["lgx"]
CMD ["--help"]
