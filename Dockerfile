# The image of binlogcache: a static binary, run by a user without rights.
#   docker build -t binlogcache .
#   docker run -p 9998:9998 -p 11211:11211 -p 8911:8911 -e BINLOGCACHE_SOURCE='cache:secret@tcp(db:3306)/' \
#     -e BINLOGCACHE_TABLES=app.user binlogcache
ARG GO_IMAGE=golang:1.26
ARG RUNTIME_IMAGE=alpine:3

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /binlogcache ./cmd/binlogcache

FROM ${RUNTIME_IMAGE}
COPY --from=build /binlogcache /usr/local/bin/binlogcache
# For TLS to the database.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# In a container, loopback is nobody's address; what is published is decided outside.
ENV BINLOGCACHE_HANDLERSOCKET_READ=:9998 \
    BINLOGCACHE_HANDLERSOCKET_WRITE=:9999 \
    BINLOGCACHE_MEMCACHED=:11211 \
    BINLOGCACHE_ADMIN=:8911
EXPOSE 9998 9999 11211 8911
USER 65534:65534
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8911/readyz"]
ENTRYPOINT ["binlogcache"]
CMD ["serve"]
