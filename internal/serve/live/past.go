package live

import (
	"bytes"
	"compress/flate"
	"encoding/gob"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// past is what was counted in a step of time, as a record of the archive.
type past struct {
	Begin   int64 // the second in which the step begins
	Watched int64 // how many seconds of it were sampled
	Series  []pastSeries
}

// pastKey names a series of the past. Service is a name, for other releases to read.
type pastKey struct {
	By            Grouping
	Service, Name string // the name of a model, an instance or a tenant
}

type pastSeries struct {
	Key    pastKey
	Model  string // of an instance
	Totals metrics.Totals
	Cells  []uint32
}

// encode writes the record, compressed.
func (p *past) encode() ([]byte, error) {
	var packed bytes.Buffer
	writer, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err = gob.NewEncoder(writer).Encode(p); err != nil {
		return nil, err
	}
	err = writer.Close()
	return packed.Bytes(), err
}

// decodePast reads a record.
func decodePast(packed []byte) (*past, error) {
	p := new(past)
	return p, gob.NewDecoder(flate.NewReader(bytes.NewReader(packed))).Decode(p)
}

// span returns what was counted in some seconds from a second on, as a range in memory has it.
func (s *Sampler) span(r Range, begin, seconds int64) *past {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := &past{Begin: begin}
	first, last := begin/shapes[r].step, (begin+seconds-1)/shapes[r].step
	for slot := first; slot <= last; slot++ {
		p.Watched += s.watched.seconds(r, slot)
	}
	note := func(by Grouping, service schema.ServiceType, name, model string, t *track) {
		var sum point
		t.within(r, first, last, func(one *point) { sum.add(one.sums, one.cells) })
		if len(sum.cells) > 0 || sum.sums != (metrics.Totals{}) {
			p.Series = append(p.Series, pastSeries{pastKey{by, service.String(), name}, model, sum.sums, sum.cells})
		}
	}
	for service := range s.services {
		note(ByService, schema.ServiceType(service), "", "", s.services[service].track)
	}
	for key, own := range s.models {
		note(ByModel, key.Service, key.Model, "", own.track)
	}
	for key, own := range s.instances {
		note(ByInstance, key.Service, key.ID, own.model, own.track)
	}
	for key, own := range s.tenants {
		note(ByTenant, key.service, key.tenant, "", own)
	}
	return p
}

// restore adds the past to ranges of the history, as far as there is room for it.
func (s *Sampler) restore(p *past, ranges ...Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range ranges {
		s.watched.add(r, p.Begin/shapes[r].step, p.Watched)
	}
	for i := range p.Series {
		one := &p.Series[i]
		t := s.trackOf(one)
		if t == nil {
			continue
		}
		t.last = max(t.last, p.Begin)
		for _, r := range ranges {
			t.at(r, p.Begin).add(one.Totals, one.Cells)
		}
	}
}

// trackOf returns the history of a series of the past, nil if there is no room for it.
func (s *Sampler) trackOf(one *pastSeries) *track {
	service, err := schema.ParseServiceType(one.Key.Service)
	if err != nil {
		return nil
	}
	var own *series
	switch one.Key.By {
	case ByService:
		own = &s.services[service].series
	case ByModel:
		key := ModelKey{service, one.Key.Name}
		if own = s.models[key]; own == nil && len(s.models) < maxInstances {
			own = new(series)
			s.models[key] = own
		}
	case ByInstance:
		key := InstanceKey{service, one.Key.Name}
		instance := s.instances[key]
		if instance == nil && len(s.instances) < maxInstances {
			instance = &instanceSeries{model: one.Model}
			s.instances[key] = instance
		}
		if instance != nil {
			own = &instance.series
		}
	case ByTenant:
		return s.tenant(tenantKey{one.Key.Name, service}, s.second)
	}
	if own == nil {
		return nil
	}
	if own.track == nil {
		own.track = new(track)
	}
	return own.track
}
