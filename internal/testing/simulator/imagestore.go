package simulator

import (
	"net/http"
	"sync"
)

const (
	imagesPath = "/images/"
	// maxImageBytes bounds the total size of the images that can be fetched.
	maxImageBytes = 64 << 20
)

// imageStore keeps the latest images that answers referred to by URL.
type imageStore struct {
	mu     sync.Mutex
	images map[string][]byte // by name
	order  []string          // oldest first
	size   int
}

// add stores an image under a name and drops the oldest ones if there are too many.
func (s *imageStore) add(name string, image []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.images == nil {
		s.images = map[string][]byte{}
	}
	if _, exists := s.images[name]; exists { // a name is a hash of the content
		return
	}
	s.images[name] = image
	s.order = append(s.order, name)
	s.size += len(image)
	for s.size > maxImageBytes && len(s.order) > 1 {
		s.size -= len(s.images[s.order[0]])
		delete(s.images, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *imageStore) find(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	image, found := s.images[name]
	return image, found
}

// answerImage serves GET /images/{name}.
func answerImage(x *exchange) {
	image, found := x.backend.images.find(x.request.PathValue("name"))
	if !found {
		answerUnknownPath(x)
		return
	}
	x.send(http.StatusOK, "image/png", image)
}
