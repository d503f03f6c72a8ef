"""The jars of the servers and tools that tests start; `python -m tests.servers.jars` fetches those of most tests."""

from pathlib import Path
from typing import Final

from snapkafka.runtime import cache_dir, jars

#: S3Proxy with files for its objects, and no more of what it can stand before than it does not start without.
S3_SERVER_JARS: Final = (
    "org.gaul:s3proxy:2.9.0",
    "aopalliance:aopalliance:1.0",
    "args4j:args4j:2.37",
    "com.fasterxml.jackson.core:jackson-annotations:2.20",
    "com.fasterxml.jackson.core:jackson-core:2.20.1",
    "com.fasterxml.jackson.core:jackson-databind:2.20.1",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-xml:2.20.1",
    "com.fasterxml.woodstox:woodstox-core:7.1.1",
    "com.google.code.gson:gson:2.11.0",
    "com.google.guava:failureaccess:1.0.3",
    "com.google.guava:guava:33.5.0-jre",
    "com.google.inject.extensions:guice-assistedinject:7.0.0",
    "com.google.inject:guice:7.0.0",
    "jakarta.annotation:jakarta.annotation-api:2.0.0",
    "jakarta.inject:jakarta.inject-api:2.0.1",
    "jakarta.xml.bind:jakarta.xml.bind-api:4.0.2",
    "org.apache.jclouds.api:oauth:2.7.0",
    "org.apache.jclouds.api:openstack-keystone:2.7.0",
    "org.apache.jclouds.api:openstack-swift:2.7.0",
    "org.apache.jclouds.api:s3:2.7.0",
    "org.apache.jclouds.api:sts:2.7.0",
    "org.apache.jclouds.driver:jclouds-slf4j:2.7.0",
    "org.apache.jclouds.provider:azureblob:2.7.0",
    "org.apache.jclouds:jclouds-blobstore:2.7.0",
    "org.apache.jclouds:jclouds-core:2.7.0",
    "org.codehaus.woodstox:stax2-api:4.2.2",
    "org.eclipse.jetty.toolchain:jetty-jakarta-servlet-api:5.0.2",
    "org.slf4j:slf4j-api:2.0.17",
    "org.slf4j:slf4j-simple:2.0.17",
)
#: Apicurio Registry, which keeps what it is told in memory: 140 MB, fetched when first asked for. The last release that
#: is published as a program.
REGISTRY: Final = "io.apicurio:apicurio-registry-app:2.6.13.Final:all:zip"


def jars_with_dependencies(*wanted: str) -> list[Path]:
    """Return the jars of these artifacts and of all that they depend on."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=cache_dir() / "poms")
    found, more = context.resolver.resolve([context.create_dependency(each) for each in wanted])
    return jars(
        f"{one.groupId}:{one.artifactId}:{one.version}:{one.classifier}:jar" for one in (*found, *more)
    )


if __name__ == "__main__":
    jars(S3_SERVER_JARS)
