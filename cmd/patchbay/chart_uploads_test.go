package main

import (
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The volume for uploads has room for all that the gateway lets in, because a pod whose
// volume is exceeded is evicted, and not much more.
func TestHelmChartHasRoomForUploads(t *testing.T) {
	var values struct {
		Uploads struct {
			SizeLimit string `yaml:"sizeLimit"`
		} `yaml:"uploads"`
	}
	if err := yaml.Unmarshal(gatewaytest.ReadFile(t, filepath.Join(deploy, "helm/patchbay/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	var size schema.Bytes
	if err := size.UnmarshalText([]byte(values.Uploads.SizeLimit + "B")); err != nil {
		t.Fatal(err)
	}
	most := config.Default().Limits.UploadSpace()
	if room := int64(size); room < most+most/10 || room > most+most/2 {
		t.Errorf("the volume has %s for %d bytes", size, most)
	}
	template := string(gatewaytest.ReadFile(t, filepath.Join(deploy, "helm/patchbay/templates/deployment.yaml")))
	_, volume, found := strings.Cut(template, "- name: tmp\n")
	if line, _, _ := strings.Cut(volume, "\n"); !found || !strings.Contains(line, "emptyDir: { sizeLimit: {{ .Values.uploads.sizeLimit | quote }} }") {
		t.Errorf("the volume of temporary files is %s", line)
	}
}
