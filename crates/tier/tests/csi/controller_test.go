package csi

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// controller stands for an administrator who writes PersistentVolumes: each volume has the same origin. Who it is says the
// plugin.
type controller struct {
	csi.UnimplementedControllerServer
	csi.UnimplementedIdentityServer
	plugin csi.IdentityClient
	origin string
	mutex  sync.Mutex
	ids    map[string]string
}

// startController serves on a socket of its own and returns its path.
func startController(t *testing.T, plugin, origin string) string {
	path := filepath.Join(t.TempDir(), "controller.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(plugin, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	one := &controller{plugin: csi.NewIdentityClient(connection), origin: origin, ids: map[string]string{}}
	csi.RegisterControllerServer(server, one)
	csi.RegisterIdentityServer(server, one)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	t.Cleanup(func() { connection.Close() })
	return path
}

func (c *controller) GetPluginInfo(ctx context.Context, request *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return c.plugin.GetPluginInfo(ctx, request)
}

func (c *controller) Probe(ctx context.Context, request *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return c.plugin.Probe(ctx, request)
}

func (c *controller) GetPluginCapabilities(ctx context.Context, request *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	answer, err := c.plugin.GetPluginCapabilities(ctx, request)
	if err != nil {
		return nil, err
	}
	kind := csi.PluginCapability_Service_CONTROLLER_SERVICE
	one := &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: kind}}
	answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{Type: one})
	return answer, nil
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	kind := csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME
	one := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}
	return &csi.ControllerGetCapabilitiesResponse{
		Capabilities: []*csi.ControllerServiceCapability{{Type: one}},
	}, nil
}

func (c *controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if _, known := c.ids[request.Name]; !known {
		c.ids[request.Name] = fmt.Sprintf("volume-%d", len(c.ids))
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      c.ids[request.Name],
		CapacityBytes: request.GetCapacityRange().GetRequiredBytes(),
		VolumeContext: map[string]string{"origin": c.origin},
	}}, nil
}

func (c *controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if request.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume")
	}
	return &csi.DeleteVolumeResponse{}, nil
}
