"""A server that speaks enough of S3 to read directories as buckets, and waits before each answer.

Usage: server.py DELAY-IN-MILLISECONDS BUCKET=DIRECTORY...; prints its port. A GET of /.count returns the number of requests
and of bytes sent since the last one.
"""

import asyncio
import os
import sys
from datetime import datetime, timezone
from email.utils import formatdate
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

DELAY = float(sys.argv[1]) / 1000
BUCKETS = dict(argument.split("=", 1) for argument in sys.argv[2:])
KEYS = {}
count = [0, 0]


def keys(bucket):
    """The objects of a bucket: (key, size, time), sorted. The directory must not change."""
    if bucket not in KEYS:
        root, found = BUCKETS[bucket], []
        for directory, _, names in os.walk(root):
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    state = os.stat(path)
                    found.append((os.path.relpath(path, root), state.st_size, state.st_mtime))
        KEYS[bucket] = sorted(found)
    return KEYS[bucket]


def listed(bucket, query):
    """An answer to ListObjectsV2."""
    prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
    behind = query.get("continuation-token", [""])[0]
    most = int(query.get("max-keys", ["1000"])[0])
    encoded = quote if "encoding-type" in query else escape
    parts, last, is_cut = [], "", False
    common = None
    for key, size, time in keys(bucket):
        if not key.startswith(prefix) or key <= behind:
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        folder = key[: cut + 1] if cut >= 0 else None
        # A folder that ended the page before begins none again.
        if folder is not None and (folder == common or behind.startswith(folder)):
            last = key
            continue
        if len(parts) == most:
            is_cut = True
            break
        last = key
        if folder is not None:
            common = folder
            parts.append(f"<CommonPrefixes><Prefix>{encoded(folder)}</Prefix></CommonPrefixes>")
        else:
            at = datetime.fromtimestamp(int(time), tz=timezone.utc)
            at = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            etag = f"&quot;{size}-{int(time)}&quot;"
            parts.append(
                f"<Contents><Key>{encoded(key)}</Key><LastModified>{at}</LastModified><ETag>{etag}</ETag>"
                f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )
    token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket}</Name><Prefix>{encoded(prefix)}</Prefix><KeyCount>{len(parts)}</KeyCount>"
        f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}{''.join(parts)}</ListBucketResult>"
    )
    return "200 OK", {"Content-Type": "application/xml"}, body.encode()


def answered(method, target, headers):
    """The status, headers and body of an answer."""
    url = urlsplit(target)
    bucket, _, key = unquote(url.path).lstrip("/").partition("/")
    if bucket not in BUCKETS:
        return "404 Not Found", {}, b"<Error><Code>NoSuchBucket</Code></Error>"
    if not key:
        return listed(bucket, parse_qs(url.query, keep_blank_values=True))
    path = os.path.join(BUCKETS[bucket], key)
    if not os.path.isfile(path):
        return "404 Not Found", {}, b"<Error><Code>NoSuchKey</Code></Error>"
    state = os.stat(path)
    found = {
        "ETag": f'"{state.st_size}-{int(state.st_mtime)}"',
        "Last-Modified": formatdate(state.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
    }
    first, last, status = 0, state.st_size - 1, "200 OK"
    if "range" in headers and state.st_size:
        begin, _, end = headers["range"].removeprefix("bytes=").partition("-")
        first, last = int(begin), min(int(end or last), last)
        status = "206 Partial Content"
        found["Content-Range"] = f"bytes {first}-{last}/{state.st_size}"
    if method == "HEAD":
        return status, {**found, "Content-Length": str(max(0, last - first + 1))}, b""
    with open(path, "rb") as file:
        file.seek(first)
        return status, found, file.read(last - first + 1)


async def serve(reader, writer):
    try:
        while line := await reader.readline():
            method, target, _ = line.decode().split(" ", 2)
            headers = {}
            while (line := (await reader.readline()).decode().strip()):
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            if target == "/.count":
                status, more, body = "200 OK", {}, f"{count[0]} {count[1]}".encode()
                count[:] = [0, 0]
            else:
                count[0] += 1
                await asyncio.sleep(DELAY)
                status, more, body = answered(method, target, headers)
                count[1] += len(body)
            more.setdefault("Content-Length", str(len(body)))
            head = "".join(f"{name}: {value}\r\n" for name, value in more.items())
            writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
