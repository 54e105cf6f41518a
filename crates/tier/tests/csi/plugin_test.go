// Package csi tests the node plugin `cachewise tier csi` with the official client and csi-sanity. The plugin listens on
// the socket CSI_SOCKET; CSI_ORIGIN and CSI_OTHER are directories that volumes show; CSI_DISK is the disk of its settings.
package csi

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const reads = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY

func variable(t *testing.T, name string) string {
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set", name)
	}
	return value
}

// Volumes are read-only; csi-sanity asks for volumes to write.
func readOnly(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if publish, is := request.(*csi.NodePublishVolumeRequest); is {
		publish.Readonly = true
	}
	return invoke(ctx, method, request, reply, connection, options...)
}

func TestSanity(t *testing.T) {
	config := sanity.NewTestConfig()
	config.Address = "unix://" + variable(t, "CSI_SOCKET")
	config.ControllerAddress = startController(t, config.Address, variable(t, "CSI_ORIGIN"))
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	config.DialOptions = []grpc.DialOption{plain, grpc.WithUnaryInterceptor(readOnly)}
	config.ControllerDialOptions = []grpc.DialOption{plain}
	directory := t.TempDir()
	config.TargetPath = filepath.Join(directory, "target")
	config.StagingPath = filepath.Join(directory, "staging")
	sanity.Test(t, config)
}

// node is a client with directories of its own.
type node struct {
	csi.NodeClient
	*testing.T
	volume  string
	staging string
	pods    string
}

func connect(t *testing.T) *node {
	connection, err := grpc.NewClient("unix://"+variable(t, "CSI_SOCKET"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	directory := t.TempDir()
	one := &node{csi.NewNodeClient(connection), t, t.Name(), filepath.Join(directory, "staging"), directory}
	t.Cleanup(func() {
		for _, name := range []string{"one", "two"} {
			one.unpublish(name)
		}
		request := &csi.NodeUnstageVolumeRequest{VolumeId: one.volume, StagingTargetPath: one.staging}
		one.expect(codes.OK)(one.NodeUnstageVolume(context.Background(), request))
	})
	return one
}

// expect checks the status of a call, and returns its message.
func (n *node) expect(code codes.Code) func(any, error) string {
	return func(_ any, err error) string {
		n.Helper()
		if status.Code(err) != code {
			n.Fatalf("%s expected: %v", code, err)
		}
		return status.Convert(err).Message()
	}
}

func capability(mode csi.VolumeCapability_AccessMode_Mode, options ...string) *csi.VolumeCapability {
	mount := &csi.VolumeCapability_MountVolume{MountFlags: options}
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: mount},
	}
}

func (n *node) stage(attributes map[string]string, options ...string) (any, error) {
	return n.NodeStageVolume(context.Background(), &csi.NodeStageVolumeRequest{
		VolumeId:          n.volume,
		StagingTargetPath: n.staging,
		VolumeCapability:  capability(reads, options...),
		VolumeContext:     attributes,
	})
}

func (n *node) publish(pod string, attributes map[string]string, mode csi.VolumeCapability_AccessMode_Mode) (any, error) {
	return n.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{
		VolumeId:          n.volume,
		StagingTargetPath: n.staging,
		TargetPath:        filepath.Join(n.pods, pod),
		VolumeCapability:  capability(mode),
		VolumeContext:     attributes,
	})
}

func (n *node) unpublish(pod string) {
	n.Helper()
	target := filepath.Join(n.pods, pod)
	n.expect(codes.OK)(n.NodeUnpublishVolume(context.Background(), &csi.NodeUnpublishVolumeRequest{VolumeId: n.volume, TargetPath: target}))
	if _, err := os.Lstat(target); !os.IsNotExist(err) {
		n.Fatalf("%s is there still: %v", target, err)
	}
}

// read returns the file `name` as a pod sees it.
func (n *node) read(pod string) string {
	n.Helper()
	bytes, err := os.ReadFile(filepath.Join(n.pods, pod, "name"))
	if err != nil {
		n.Fatal(err)
	}
	return string(bytes)
}

// mounts are the processes that serve this volume.
func (n *node) mounts() []int {
	n.Helper()
	listed, err := exec.Command("pgrep", "-f", "^[^ ]*cachewise-tier mount .*"+n.staging+"$").Output()
	if err != nil && len(listed) == 0 {
		return nil
	}
	var pids []int
	for _, line := range strings.Fields(string(listed)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			n.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func TestPodsShareOneMount(t *testing.T) {
	n := connect(t)
	attributes := map[string]string{
		"origin":                         variable(t, "CSI_ORIGIN"),
		"memory":                         "32M",
		"csi.storage.k8s.io/pod.name":    "one",
		"csi.storage.k8s.io/ephemeral":   "false",
		"storage.kubernetes.io/identity": "x",
	}
	n.expect(codes.OK)(n.stage(attributes, "ro", "block=64K"))
	n.expect(codes.OK)(n.stage(attributes, "ro", "block=64K"))
	for _, pod := range []string{"one", "two", "one"} {
		n.expect(codes.OK)(n.publish(pod, attributes, reads))
		if text := n.read(pod); text != "origin" {
			t.Fatalf("%s reads %q", pod, text)
		}
	}
	if pids := n.mounts(); len(pids) != 1 {
		t.Fatalf("one process serves both pods: %v", pids)
	}
	if err := os.WriteFile(filepath.Join(n.pods, "one", "new"), nil, 0o644); err == nil {
		t.Fatal("a volume is read-only")
	}
	n.unpublish("one")
	if text := n.read("two"); text != "origin" {
		t.Fatalf("the other pod goes on: %q", text)
	}
	other := map[string]string{"origin": variable(t, "CSI_OTHER")}
	n.expect(codes.AlreadyExists)(n.stage(other))
	n.expect(codes.AlreadyExists)(n.publish("two", other, reads))
}

func TestVolumesHaveDirectoriesOfTheirOwnOnTheDisk(t *testing.T) {
	attributes := map[string]string{"origin": variable(t, "CSI_ORIGIN")}
	before := blocks(t)
	for _, name := range []string{"first", "second"} {
		// Both at once, until the end of this test.
		n := connect(t)
		n.volume = name
		n.expect(codes.OK)(n.stage(attributes))
	}
	if after := blocks(t); after != before+2 {
		t.Fatalf("%d directories became %d", before, after)
	}
}

// blocks is the number of volumes that have had blocks on the disk.
func blocks(t *testing.T) int {
	entries, err := os.ReadDir(variable(t, "CSI_DISK"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(entries)
}

func TestEndedMountIsMountedAgain(t *testing.T) {
	n := connect(t)
	attributes := map[string]string{"origin": variable(t, "CSI_ORIGIN")}
	n.expect(codes.OK)(n.stage(attributes))
	n.expect(codes.OK)(n.publish("one", attributes, reads))
	for _, pid := range n.mounts() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	var attributesOf syscall.Statfs_t
	for end := time.Now().Add(time.Minute); syscall.Statfs(filepath.Join(n.pods, "one"), &attributesOf) != syscall.ENOTCONN; {
		if time.Now().After(end) {
			t.Fatal("the mount goes on")
		}
		time.Sleep(10 * time.Millisecond)
	}
	// The pod before has a dead mount; its next call gets a new one.
	n.expect(codes.OK)(n.publish("one", attributes, reads))
	n.expect(codes.OK)(n.publish("two", attributes, reads))
	for _, pod := range []string{"one", "two"} {
		if text := n.read(pod); text != "origin" {
			t.Fatalf("%s reads %q", pod, text)
		}
	}
}

func TestWrongVolumesAreRefusedWithAReason(t *testing.T) {
	n := connect(t)
	origin := variable(t, "CSI_ORIGIN")
	for _, one := range []struct {
		attributes map[string]string
		options    []string
		code       codes.Code
		why        string
	}{
		{map[string]string{}, nil, codes.InvalidArgument, "attribute origin is missing"},
		{map[string]string{"origin": origin, "memmory": "1G"}, nil, codes.InvalidArgument, "no such setting"},
		{map[string]string{"origin": origin, "memory": "much"}, nil, codes.Internal, "CACHEWISE_TIER_MEMORY"},
		{map[string]string{"origin": origin}, []string{"noexec"}, codes.InvalidArgument, "mount option noexec"},
		{map[string]string{"origin": origin, "csi.storage.k8s.io/ephemeral": "true"}, nil, codes.InvalidArgument, "PersistentVolume"},
		{map[string]string{"origin": filepath.Join(origin, "missing")}, nil, codes.Internal, "missing"},
	} {
		why := n.expect(one.code)(n.stage(one.attributes, one.options...))
		if !strings.Contains(why, one.why) {
			t.Errorf("%q expected: %s", one.why, why)
		}
	}
	attributes := map[string]string{"origin": origin}
	n.expect(codes.OK)(n.stage(attributes))
	writes := csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	why := n.expect(codes.FailedPrecondition)(n.publish("one", attributes, writes))
	if !strings.Contains(why, "read-only") {
		t.Error(why)
	}
	secrets := &csi.NodeStageVolumeRequest{
		VolumeId:          n.volume,
		StagingTargetPath: n.staging,
		VolumeCapability:  capability(reads),
		VolumeContext:     attributes,
		Secrets:           map[string]string{"LD_PRELOAD": "x.so"},
	}
	n.expect(codes.InvalidArgument)(n.NodeStageVolume(context.Background(), secrets))
	foreign := &csi.NodeUnpublishVolumeRequest{VolumeId: n.volume, TargetPath: "/proc"}
	why = n.expect(codes.Internal)(n.NodeUnpublishVolume(context.Background(), foreign))
	if !strings.Contains(why, "left alone") {
		t.Error(why)
	}
}
