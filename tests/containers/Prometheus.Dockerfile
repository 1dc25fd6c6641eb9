# Debian's Prometheus under the name of the image in docker-compose.yml, where no registry can be
# reached.
FROM debian:12-slim
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends prometheus \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /etc/prometheus/* \
 && install -d -o prometheus /prometheus
USER prometheus
ENTRYPOINT ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
