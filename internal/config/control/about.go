package control

import (
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// About describes one version in a list of versions.
type About struct {
	Number                  int
	CreatedAt               time.Time
	Origin, Author, Summary string
	// Said is the summary as codes and values, nil where these are not known.
	Said []say.Sentence
}

// About describes a stored version. Lists of versions are asked for often and versions do
// not change, so each is read once.
func (c *Control) About(number int) (About, error) {
	about, change, known := c.local.abouts.of(number)
	if known {
		return about, nil
	}
	v, err := c.Load(number)
	if err != nil {
		return About{}, err
	}
	about = c.aboutOf(v)
	c.local.abouts.put(about, change)
	return about, nil
}

// AboutOf describes a version that was read.
func (c *Control) AboutOf(v *Version) About {
	if about, _, known := c.local.abouts.of(v.Number); known && about.CreatedAt.Equal(v.CreatedAt) {
		return about
	}
	return c.aboutOf(v)
}

func (c *Control) aboutOf(v *Version) About {
	return About{v.Number, v.CreatedAt, v.Origin, v.Author, v.Summary, v.Said}
}

// aboutCache remembers the descriptions of versions.
type aboutCache struct {
	mu    sync.Mutex
	known map[int]About
	// change counts removals. A description from before a removal may describe another
	// version with the same number.
	change int
}

// maxAbouts bounds the number of versions in the cache.
const maxAbouts = 5000

func (c *aboutCache) of(number int) (about About, change int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	about, known = c.known[number]
	return about, c.change, known
}

func (c *aboutCache) put(about About, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if change != c.change {
		return
	}
	if c.known == nil || len(c.known) >= maxAbouts {
		c.known = make(map[int]About)
	}
	c.known[about.Number] = about
}

// forget drops versions that are stored or removed: another log may use the same numbers
// for other versions.
func (c *aboutCache) forget(numbers ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.change++
	for _, number := range numbers {
		delete(c.known, number)
	}
}
