package web

import "cmp"

// PageQuery asks for a page of a list.
type PageQuery struct {
	Number int `json:"page" minimum:"1" maximum:"1073741824" doc:"With page or size the data is {content, page}."`
	Size   int `json:"size" minimum:"1" maximum:"100"`
}

// Page returns the page that is asked for, nil for the whole list.
func (q PageQuery) Page() *Page {
	const usual = 20
	if q == (PageQuery{}) {
		return nil
	}
	return &Page{Number: cmp.Or(q.Number, 1), Size: cmp.Or(q.Size, usual)}
}

// Page is the part of a list that a request asks for.
type Page struct {
	Number        int `json:"number"`
	Size          int `json:"size"`
	TotalElements int `json:"totalElements"`
	TotalPages    int `json:"totalPages"`
}

// Add notes one more element of the list, and reports whether it is on the page.
func (p *Page) Add() (isOn bool) {
	isOn = p.TotalElements/p.Size == p.Number-1
	p.TotalElements++
	p.TotalPages = (p.TotalElements + p.Size - 1) / p.Size
	return isOn
}

// OnPage returns the elements on a page, and notes in it how many there are in all. Without
// a page these are all.
func OnPage[T any](p *Page, all []T) []T {
	if p == nil {
		return NotNil(all)
	}
	shown := []T{}
	for _, element := range all {
		if p.Add() {
			shown = append(shown, element)
		}
	}
	return shown
}

// NotNil returns a list that is written as [] where it is empty.
func NotNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// PageView is the data of a reply that shows a page of a list.
type PageView[T any] struct {
	Content []T  `json:"content"`
	Page    Page `json:"page"`
}

// ListOf describes the data of a list in the OpenAPI document: all of it, or with page or
// size a page of it.
type ListOf[T any] struct{}

// Alternatives are the forms of the list.
func (ListOf[T]) Alternatives() []any { return []any{[]T{}, PageView[T]{}} }
