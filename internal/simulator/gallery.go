package simulator

import (
	"net/http"
	"sync"
)

const (
	imagesPath = "/images/"
	// mostInGallery bounds what the images that can be fetched weigh together.
	mostInGallery = 64 << 20
)

// gallery keeps the latest images that answers gave the address of.
type gallery struct {
	mu     sync.Mutex
	images map[string][]byte // by name
	order  []string          // oldest first
	weight int
}

// hang keeps an image under a name.
func (g *gallery) hang(name string, image []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.images == nil {
		g.images = map[string][]byte{}
	}
	if _, there := g.images[name]; there { // names are made of contents
		return
	}
	g.images[name] = image
	g.order = append(g.order, name)
	g.weight += len(image)
	for g.weight > mostInGallery && len(g.order) > 1 {
		g.weight -= len(g.images[g.order[0]])
		delete(g.images, g.order[0])
		g.order = g.order[1:]
	}
}

func (g *gallery) find(name string) ([]byte, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	image, found := g.images[name]
	return image, found
}

// answerImage serves GET /images/{name}.
func answerImage(x *exchange) {
	image, found := x.backend.gallery.find(x.request.PathValue("name"))
	if !found {
		answerUnknownPath(x)
		return
	}
	x.send(http.StatusOK, "image/png", image)
}
